/** A part of a value that a schema does not accept. */
export type Failure = {
  /** Names and indexes joined by dots; "" for the value itself. */
  path: string;
  message: string;
};

/** One validation under way. */
export type Run = {
  /** Checks made so far: what a schema may cost is bounded whatever it says. */
  steps: number;
  /** References followed into one another. */
  depth: number;
  path: (string | number)[];
  /** Undefined while only whether something holds is asked. */
  failures: Failure[] | undefined;
};

/** Whether a value is accepted. */
export type Check = (value: unknown, run: Run) => boolean;

/** Checks that one validation may make. */
export const STEPS_MAX = 20_000;
/** References that may lead into one another for one value. */
export const REFERENCES_MAX = 64;
/** Failures that are told. */
export const FAILURES_MAX = 5;

/** Ends a validation that costs too much. */
export class TooCostly extends Error {}

export const step = (run: Run, weight = 1): void => {
  run.steps += weight;
  if (run.steps > STEPS_MAX) throw new TooCostly(`takes more than ${STEPS_MAX} steps`);
};

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
