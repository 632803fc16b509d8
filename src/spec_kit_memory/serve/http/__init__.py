"""How is a workspace served over HTTP?"""
