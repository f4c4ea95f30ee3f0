"""How the weights and the calibration of the detector ``lexical`` are made and measured."""
