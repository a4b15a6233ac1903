mod against_equations;
mod searches;
