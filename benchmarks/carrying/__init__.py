"""Plans carried over from smaller graphs: can a choice of rule for each role be learned?"""
