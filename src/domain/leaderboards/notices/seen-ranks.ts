import type { RankStore, Standing } from "../../evaluation/boards/ranks.ts";
import type { NoticeList } from "./notice-lists.ts";

/** How far from a band's edge displaced players are searched. */
const REACH_MAX = 1_000;

/** The relevant part of a list's ranking: positions of those who may have to be notified. */
export type SeenRanks = {
  list: NoticeList;
  /** The players whose entries have changed. */
  changed: ReadonlySet<string>;
  standings: ReadonlyMap<string, Standing>;
  first: Standing | undefined;
  participants: number;
};

type Region = { start: number; end: number };

/**
 * Positions near the edges of bands: when the entries of `count` players change, nobody else moves further
 * than that. Positions are ranks less 1.
 */
export const regionsOf = (bands: readonly number[], count: number): Region[] => {
  const reach = Math.min(count, REACH_MAX);
  const regions: Region[] = [{ start: 0, end: 1 }];
  for (const edge of bands) {
    const region = { start: Math.max(0, edge - reach), end: edge + reach };
    const last = regions.at(-1)!;
    if (region.start <= last.end) last.end = Math.max(last.end, region.end);
    else regions.push(region);
  }
  return regions;
};

/** Queries the rank index for the changed players, and for those whom they may have displaced. */
export const seeRanks = async (
  ranks: RankStore,
  list: NoticeList,
  changed: ReadonlySet<string>,
): Promise<SeenRanks> => {
  const asked = new Set(changed);
  if (list.named) asked.add(list.named.playerId);
  const [own, ...pages] = await Promise.all([
    ranks.standings(list.ref, [...asked]),
    ...regionsOf(list.rule.bands, changed.size).map(({ start, end }) =>
      ranks.page(list.ref, start, end - start),
    ),
  ]);
  const standings = [...own, ...pages.flatMap((page) => page.standings)];
  return {
    list,
    changed,
    standings: new Map(standings.map((standing) => [standing.playerId, standing])),
    first: pages[0]?.standings[0],
    participants: pages[0]?.total ?? 0,
  };
};
