"""Published audio models as encoders; their weights are the user's to bring.

Nothing here imports PyTorch until a checkpoint is opened.
"""
