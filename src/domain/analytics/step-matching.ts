/**
 * Matching of steps and events, where one event serves one step: augmenting paths, after H. W. Kuhn: The
 * Hungarian Method for the Assignment Problem, Naval Research Logistics Quarterly 2, 1955.
 */

type Matching = {
  /** Events that each step may be, by step: any numbers; as many as there are steps are enough. */
  candidates: readonly (readonly number[])[];
  /** An event that is taken already. */
  taken?: number | undefined;
};

/** Returns whether a step gets an event, perhaps as others take another one. */
const give = (
  { candidates, taken }: Matching,
  step: number,
  { owners, asked }: { owners: Map<number, number>; asked: Set<number> },
): boolean => {
  for (const event of candidates[step]!) {
    if (event === taken || asked.has(event)) continue;
    asked.add(event);
    const owner = owners.get(event);
    if (owner !== undefined && !give({ candidates, taken }, owner, { owners, asked })) continue;
    owners.set(event, step);
    return true;
  }
  return false;
};

/** Returns how many steps, from the first one on, can all be done at once. */
export const stepsFromFirst = (matching: Matching): number => {
  const owners = new Map<number, number>();
  const { length } = matching.candidates;
  let step = 0;
  while (step < length && give(matching, step, { owners, asked: new Set() })) step++;
  return step;
};
