"""Why an instance's objective is what it is: what ``chipmap explain`` says, family by family."""
