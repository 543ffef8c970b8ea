import { growthOf, recordGrowth, type Turn } from "../turn.ts";
import type { PlayerState } from "../player-state.ts";
import {
  addAmount,
  type Amounts,
  type Cap,
  type CapMoment,
  capMoment,
  type CapSet,
  countedIn,
  countOf,
  nameOf,
  PROJECT_SCOPE,
  type ScopeAmounts,
  takeAmount,
} from "./cap.ts";

/** Maximum bytes of JSON that a change adds to a document, for each set: those of a new scope. */
const GROWTH_MAX = 300;

export const NO_CAPS: readonly CapSet[] = [];
const NO_AMOUNTS: ScopeAmounts = {};

const amountsOf = ({ doc }: Pick<PlayerState, "doc">, scope: string): ScopeAmounts =>
  doc.g?.[scope] ?? NO_AMOUNTS;

/** Returns the caps that apply to what an action of a rule gives: those of the rule, and the project's. */
export const capsOf = ({ project, root }: Turn, ofRule: CapSet | undefined): readonly CapSet[] => {
  if (root.ignoresCaps === true) return NO_CAPS;
  const { caps } = project.settings;
  const ofProject = caps.length === 0 ? NO_CAPS : [{ scope: PROJECT_SCOPE, caps }];
  return ofRule ? [ofRule, ...ofProject] : ofProject;
};

/** Returns how much of an asset may still be given in the windows of the turn's event. */
export const roomFor = (turn: Turn, asset: string, sets: readonly CapSet[]): number => {
  let room = Infinity;
  for (const { scope, caps } of sets) {
    const amounts = amountsOf(turn.player, scope);
    for (const cap of caps) {
      if (cap.asset !== asset) continue;
      const counted = countedIn(cap, amounts[nameOf(cap)], capMoment(turn));
      room = Math.min(room, counted === undefined ? 0 : cap.max - counted);
    }
  }
  return Math.max(0, room);
};

/** Tells traces that a cap has cut an amount. */
export const warnOfCut = (
  { warn }: Turn,
  { asset, wanted, room }: { asset: string; wanted: number; room: number },
): void => warn(`a cap leaves ${room} of ${wanted} ${asset}`);

type AssetChange = { asset: string; change: number };

/** Counts a change of the turn's player, signed, in all caps of its asset. */
export const countChange = (turn: Turn, sets: readonly CapSet[], { asset, change }: AssetChange): void =>
  changeAmounts(turn, { sets, asset }, (cap, amounts, moment) => {
    const counted = countOf(cap, change);
    return counted === 0 ? undefined : addAmount(cap, amounts, { change: counted, moment });
  });

/** Takes a change of the turn's player back from all caps of its asset, at the time of the turn's event. */
export const takeBackChange = (turn: Turn, sets: readonly CapSet[], { asset, change }: AssetChange): void =>
  changeAmounts(turn, { sets, asset }, (cap, amounts, moment) =>
    takeAmount(cap, amounts, { change: countOf(cap, change), moment }),
  );

/** @param changed the amounts of a cap afterwards; undefined: they stay */
const changeAmounts = (
  turn: Turn,
  { sets, asset }: { sets: readonly CapSet[]; asset: string },
  changed: (cap: Cap, amounts: Amounts | undefined, moment: CapMoment) => Amounts | undefined,
): void => {
  if (sets.length === 0) return;
  const moment = capMoment(turn);
  for (const { scope, caps } of sets)
    eachOnce(caps, asset, (cap, name) => {
      const before = amountsOf(turn.player, scope);
      const after = changed(cap, before[name], moment);
      if (after !== undefined) setAmounts(turn, scope, { ...before, [name]: after });
    });
};

/** Several caps may share one count. */
const eachOnce = (caps: readonly Cap[], asset: string, act: (cap: Cap, name: string) => void): void => {
  const done = new Set<string>();
  for (const cap of caps) {
    const name = nameOf(cap);
    if (cap.asset === asset && !done.has(name)) act(cap, name);
    done.add(name);
  }
};

const setAmounts = (turn: Turn, scope: string, amounts: ScopeAmounts): void => {
  const { player } = turn;
  const old = player.doc.g?.[scope];
  recordGrowth(turn, { most: GROWTH_MAX, grown: () => growthOf(`"${scope}":,`, old, amounts) });
  (player.doc.g ??= {})[scope] = amounts;
  player.dirty.doc = true;
};

/**
 * Keeps what caps of a scope have counted, whatever is undone in between.
 * @returns a function that puts it back
 */
export const keepAmounts = ({ player }: Turn, { scope }: CapSet): (() => void) => {
  const amounts = player.doc.g?.[scope];
  return () => {
    if (amounts === undefined) return;
    (player.doc.g ??= {})[scope] = amounts;
    player.dirty.doc = true;
  };
};
