//! A table of numbers, a row per leaf, whose clones share what neither of them has changed.

use std::sync::Arc;

/// Rows per chunk. A change copies one chunk if a clone shares it (some KiB), and two tables are compared chunk by
/// chunk (512 of them for 65,536 leaves).
pub(super) const CHUNK_ROWS: usize = 128;

type Chunk = Arc<[i64]>;

/// A table of numbers. Cloning costs nothing; changing a clone copies a list of chunks once and then each chunk it
/// touches.
#[derive(Clone, Debug)]
pub(super) struct Table {
    width: usize,
    chunks: Arc<Vec<Chunk>>,
}

impl Table {
    /// `rows` rows of `width` zeros. It takes next to no memory until it is changed.
    pub(super) fn zeros(rows: usize, width: usize) -> Self {
        let zeros: Chunk = vec![0; CHUNK_ROWS * width].into();
        let chunks = vec![zeros; rows.div_ceil(CHUNK_ROWS)];
        Self { width, chunks: Arc::new(chunks) }
    }

    pub(super) fn row(&self, row: usize) -> &[i64] {
        let start = row % CHUNK_ROWS * self.width;
        &self.chunks[row / CHUNK_ROWS][start..start + self.width]
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [i64] {
        let chunk = &mut Arc::make_mut(&mut self.chunks)[row / CHUNK_ROWS];
        let start = row % CHUNK_ROWS * self.width;
        &mut Arc::make_mut(chunk)[start..start + self.width]
    }

    /// Whether both are one table, changed in neither.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }

    /// Whether a chunk (by number) is one and the same in both, changed in neither.
    pub(super) fn is_chunk_same(&self, other: &Self, chunk: usize) -> bool {
        Arc::ptr_eq(&self.chunks[chunk], &other.chunks[chunk])
    }

    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }
}
