"""CLAPnq's human evaluation with a language model in the people's place (paper, section 5 and appendix A.2)."""
