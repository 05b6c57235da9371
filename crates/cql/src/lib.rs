//! CQL text to plan: lexer, parser, analysis, binding; pure.
#![forbid(unsafe_code)]
