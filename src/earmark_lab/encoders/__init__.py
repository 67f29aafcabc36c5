"""Published audio models as frontlines; their weights are the user's to bring.

Nothing here imports PyTorch until a checkpoint is opened.
"""
