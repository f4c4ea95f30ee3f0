"""NoMIRACL: does the model know when the passages do not answer? (Thakur et al. 2024)"""
