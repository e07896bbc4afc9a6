/**
 * The builder hashes absolute paths into module ids, so two checkouts of the same source would
 * give different files. Numbering the modules in order makes the build the same everywhere.
 */
module.exports = { optimization: { moduleIds: 'natural', chunkIds: 'natural' } };
