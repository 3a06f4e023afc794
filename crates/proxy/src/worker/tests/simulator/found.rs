//! What the simulator has found, each as the shortest program that shows it.
