"""The state of a run, and of the machine or cluster that is to run one."""
