"""What do the engines that keep tables have in common? Their statements, in `dialect`, and the steps that use them."""
