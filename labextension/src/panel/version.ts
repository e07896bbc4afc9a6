/** The version of this panel; tests hold it equal to that of the Python package. */
export const VERSION = '0.1.0';
