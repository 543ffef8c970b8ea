import { StepBudget } from "../../kernel/step-budget.ts";

/** A part of a value that violates the schema. */
export type Failure = {
  /** Names and indexes joined by dots; "" for the value itself. */
  path: string;
  message: string;
};

/** State of a running validation. */
export type Run = {
  /** Remaining step budget. Every keyword charges what it is about to read. */
  budget: StepBudget;
  /** Depth of nested references. */
  depth: number;
  path: (string | number)[];
  /** Undefined while only the outcome matters. */
  failures: Failure[] | undefined;
};

/** Returns whether a value matches. */
export type Check = (value: unknown, run: Run) => boolean;

/** Maximum steps of the check of one value: about 5 ms of CPU. */
export const STEPS_MAX = 50_000;
/** Maximum steps of the checks of all events of one request: about 500 ms, in slices. */
export const BATCH_STEPS_MAX = 5_000_000;
/** Maximum depth of nested references for one value. */
export const REFERENCES_MAX = 64;
/** Maximum failures reported. */
export const FAILURES_MAX = 5;

/** Thrown when references are nested too deep. */
export class TooDeep extends Error {}

/** @param steps the step budget of the run */
export const newRun = (steps: number): Run => ({
  budget: new StepBudget(steps),
  depth: 0,
  path: [],
  failures: [],
});

/** Records a failure at the current path. @returns false */
export const fail = ({ failures, path }: Run, message: string): false => {
  if (failures && failures.length < FAILURES_MAX) failures.push({ path: path.join("."), message });
  return false;
};

/** Checks a part of the value under its own name. */
export const within = (run: Run, name: string | number, check: Check, value: unknown): boolean => {
  run.path.push(name);
  const holds = check(value, run);
  run.path.pop();
  return holds;
};

/** Runs a check without recording failures. */
export const quietly = (run: Run, check: Check, value: unknown): boolean => {
  const { failures } = run;
  run.failures = undefined;
  const holds = check(value, run);
  run.failures = failures;
  return holds;
};
