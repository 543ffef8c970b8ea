import type { Steps } from "../../kernel/slices.ts";

/**
 * A node of what waits for what: it opens once so much of what it waits for is open. What is never open can
 * never be done.
 */
export type Gate = {
  /** What people call it; undefined for a part of something. */
  name?: string | undefined;
  /** How much it needs; what has nothing to wait for needs nothing. */
  needs: number;
  has: number;
  waitsFor: Gate[];
  /** Those that wait for it: it gives them one each. */
  waiting: Gate[];
  /** Those to which it gives another amount. */
  amounts?: { to: Gate; amount: number }[];
  /** Of one that only adds up: the gates that open with so much of it. */
  levels?: Gate[];
};

/** What is open from the beginning. */
export const OPEN = "OPEN";
export type MaybeGate = Gate | typeof OPEN;

export const gate = (needs = 0, name?: string): Gate => ({ name, needs, has: 0, waitsFor: [], waiting: [] });

/** Makes a gate wait for another one, which gives it an amount of what it needs. */
export const give = (to: Gate, from: Gate, amount = 1): void => {
  to.waitsFor.push(from);
  if (amount === 1) from.waiting.push(to);
  else (from.amounts ??= []).push({ to, amount });
};

/** Makes a gate need one thing more. */
export const need = (to: Gate, from: MaybeGate): void => {
  if (from === OPEN) return;
  to.needs += 1;
  give(to, from);
};

/** Returns a gate that opens with all of several. */
export const allOf = (members: readonly MaybeGate[]): MaybeGate => {
  const closed = members.filter((one) => one !== OPEN);
  if (closed.length === 0) return OPEN;
  const made = gate();
  for (const one of closed) need(made, one);
  return made;
};

/** Returns a gate that opens with the first of several. */
export const anyOf = (members: readonly MaybeGate[]): MaybeGate => {
  const closed = members.filter((one) => one !== OPEN);
  if (closed.length < members.length || closed.length === 0) return OPEN;
  const made = gate(1);
  for (const one of closed) give(made, one);
  return made;
};

/** Returns a gate that only adds up: gates by `levelOf` open with so much of it. */
export const meter = (): Gate & { levels: Gate[] } => ({ ...gate(Infinity), levels: [] });

/** Returns a gate that opens with so much of a meter. To be called before anything is opened. */
export const levelOf = (of: Gate & { levels: Gate[] }, needs: number): Gate => {
  const made = gate(needs);
  made.waitsFor.push(of);
  of.levels.push(made);
  return made;
};

const isOpen = ({ has, needs }: Gate): boolean => has >= needs;

/** Opens all gates that can be opened, each once: the work grows with the number of what they give. */
export function* openAll(gates: readonly Gate[]): Steps<void> {
  for (const { levels } of gates) levels?.sort((a, b) => b.needs - a.needs);
  const opened = gates.filter(isOpen);
  const pass = (to: Gate, amount: number): void => {
    const wasOpen = isOpen(to);
    to.has += amount;
    if (to.levels) opened.push(...reached(to.levels, to.has));
    else if (!wasOpen && isOpen(to)) opened.push(to);
  };
  for (const one of opened) {
    for (const to of one.waiting) pass(to, 1);
    for (const { to, amount } of one.amounts ?? []) pass(to, amount);
    yield;
  }
}

/** Takes out the levels that so much reaches, and opens them. @param levels the least last */
const reached = (levels: Gate[], has: number): Gate[] => {
  const found: Gate[] = [];
  for (let last = levels.at(-1); last && last.needs <= has; last = levels.at(-1)) {
    last.has = last.needs;
    found.push(last);
    levels.pop();
  }
  return found;
};

/** How far the search has come with a gate: its way leads on by `next` of what it waits for. */
type Visit = { gate: Gate; next: number };

/**
 * Finds gates that wait for one another, among those that never open, by one search from several of them.
 * @returns their names, the first one again at the end; undefined where there are none
 */
export function* findRing(from: Iterable<Gate>): Steps<string[] | undefined> {
  const seen = new Set<Gate>();
  for (const start of from) {
    const ring = seen.has(start) || isOpen(start) ? undefined : yield* ringFrom(start, seen);
    if (ring) return namesOf(ring);
  }
  return undefined;
}

function* ringFrom(start: Gate, seen: Set<Gate>): Steps<Gate[] | undefined> {
  const way: Visit[] = [{ gate: start, next: 0 }];
  const onWay = new Set([start]);
  seen.add(start);
  for (let at = way.at(-1); at; at = way.at(-1)) {
    const next = at.gate.waitsFor[at.next++];
    if (next === undefined) {
      onWay.delete(at.gate);
      way.pop();
    } else if (onWay.has(next)) {
      return way.slice(way.findIndex((one) => one.gate === next)).map((one) => one.gate);
    } else if (!seen.has(next) && !isOpen(next)) {
      seen.add(next);
      onWay.add(next);
      way.push({ gate: next, next: 0 });
      yield;
    }
  }
  return undefined;
}

const namesOf = (ring: readonly Gate[]): string[] => {
  const names = ring.flatMap(({ name }) => name ?? []);
  const others = names.filter((name, i) => name !== names[i - 1]);
  if (others.length > 1 && others.at(-1) === others[0]) others.pop();
  return [...others, others[0] ?? ""];
};
