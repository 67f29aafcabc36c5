"""Whether triage pays: rules and frontlines compared on annotated recordings.

annotations/  readers of annotation files, and the annotations they return
metrics/      pure functions from references and picks to counts, and tests of significance
benchmark*    every rule on every recording at every budget: cases, a run that resumes, its results
tables/       tables, figures and pages derived from results
paper/        the paper's other experiments: captions, cost, occupancy, downsampling
coverage_evaluation   `evaluate`, which composes them
"""
