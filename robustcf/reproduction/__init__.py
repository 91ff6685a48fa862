"""The paper's tables and figures, made of the rows of finished runs. Pure: it reads no run folder."""
