"""`term2 sessions`: what a person does with stored sessions; imported only then."""
