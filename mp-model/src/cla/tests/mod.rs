mod machines;
mod searches;
