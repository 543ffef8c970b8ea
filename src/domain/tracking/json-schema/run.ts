import { StepBudget } from "../../kernel/step-budget.ts";

/** A part of a value that a schema does not accept. */
export type Failure = {
  /** Names and indexes joined by dots; "" for the value itself. */
  path: string;
  message: string;
};

/** One validation under way. */
export type Run = {
  /** What the checks may still cost. Every keyword charges what it is about to read. */
  budget: StepBudget;
  /** References followed into one another. */
  depth: number;
  path: (string | number)[];
  /** Undefined while only whether something holds is asked. */
  failures: Failure[] | undefined;
};

/** Whether a value is accepted. */
export type Check = (value: unknown, run: Run) => boolean;

/** Steps that the check of one value may take: about 5 ms of CPU. */
export const STEPS_MAX = 50_000;
/** Steps that the checks of all events of one request may take together: about 500 ms, in slices. */
export const BATCH_STEPS_MAX = 5_000_000;
/** References that may lead into one another for one value. */
export const REFERENCES_MAX = 64;
/** Failures that are told. */
export const FAILURES_MAX = 5;

/** Ends a validation whose references go too deep. */
export class TooDeep extends Error {}

/** @param steps that the run may take */
export const newRun = (steps: number): Run => ({
  budget: new StepBudget(steps),
  depth: 0,
  path: [],
  failures: [],
});

/** Notes a failure at where the validation is. @returns false */
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

/** Asks without telling why not. */
export const quietly = (run: Run, check: Check, value: unknown): boolean => {
  const { failures } = run;
  run.failures = undefined;
  const holds = check(value, run);
  run.failures = failures;
  return holds;
};
