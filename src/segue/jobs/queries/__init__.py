"""The SQL of jobs: the jobs of each owner, their runs, and the reports of the runs."""
