"""What the commands print: tables, progress, and text made safe for a terminal."""
