//! One slice from its creation until its nodes can be used again.
