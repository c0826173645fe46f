mod blocked;
mod broker;
