import type { Effects } from "./effects.ts";
import { EDITED_IN_PLACE, HOLDING_NAMES, type PlayerState } from "./player-state.ts";
import type { Turn } from "./turn.ts";

const copyMap = <K, V>(from: ReadonlyMap<K, V>, to: Map<K, V>): void => {
  to.clear();
  for (const [key, value] of from) to.set(key, value);
};

const savePlayer = (player: PlayerState): (() => void) => {
  const { dirty, ...values } = player;
  const maps = HOLDING_NAMES.map((name) => new Map<string, unknown>(player[name]));
  const doc = { ...player.doc };
  for (const field of EDITED_IN_PLACE) if (doc[field]) Object.assign(doc, { [field]: { ...doc[field] } });
  const flags = { profile: dirty.profile, doc: dirty.doc };
  const sets = HOLDING_NAMES.map((name) => new Set(dirty[name]));
  return () => {
    // The maps themselves are kept, since others refer to them; their contents are restored.
    Object.assign(player, values);
    HOLDING_NAMES.forEach((name, i) => copyMap(maps[i]!, player[name] as Map<string, unknown>));
    player.doc = doc;
    Object.assign(dirty, flags);
    HOLDING_NAMES.forEach((name, i) => (dirty[name] = sets[i]!));
  };
};

const saveEffects = (effects: Effects): (() => void) => {
  const lists = Object.values(effects) as unknown[][];
  const lengths = lists.map(({ length }) => length);
  return () => lists.forEach((list, i) => (list.length = lengths[i]!));
};

/**
 * Saves the current state of a turn.
 * @returns a function that restores player, effects, derived events and shared counters; to be called at most
 * once
 */
export const saveTurn = ({ player, effects, root, shared }: Turn): (() => void) => {
  const restore = [savePlayer(player), saveEffects(effects), shared.save()];
  const derived = root.derived.length;
  const { spawned, bundles, questNews } = root;
  const news = questNews?.slice();
  const given = bundles?.given ?? 0;
  return () => {
    for (const put of restore) put();
    root.derived.length = derived;
    root.spawned = spawned;
    if (root.questNews) root.questNews = news ?? [];
    if (root.bundles) root.bundles.given = given;
  };
};
