import fc from "fast-check";

/** Decides every random choice of a run: one number unless SEED is given, so that the gate is the same twice. */
export const SEED = process.env["SEED"] ?? "1";

/** The share of its cases that a property tries unless TEST_RUNS=all: the suites outside of the gate try all. */
const SHARE = process.env["TEST_RUNS"] === "all" ? 1 : 0.1;

/** How many of `all` cases a property tries in this run. */
export const cases = (all: number): number => Math.ceil(all * SHARE);

fc.configureGlobal({ seed: Number(SEED) });
