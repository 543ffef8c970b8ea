const { NODE_V8_COVERAGE } = process.env;

/**
 * Whether this process collects coverage. Processes that tests start collect none, although Node hands the
 * setting on: it takes all code from no cache of compiled modules, and a start costs half as much again.
 */
export const isCovered = NODE_V8_COVERAGE !== undefined;
delete process.env["NODE_V8_COVERAGE"];
