"""The backend of tutti_torch in C++, compiled beforehand. built_for.json says for which PyTorch, Python and Tutti; tutti_torch loads it if
it fits. Nothing here is imported by programs."""
