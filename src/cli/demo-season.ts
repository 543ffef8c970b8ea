import type { App } from "../app.ts";
import { inProjectTime } from "../domain/accounts/projects/project.ts";
import { adventureKind, readAdventureStats } from "../domain/economy/adventures/kind.ts";
import {
  claimPlayerTier,
  givePlayerPremium,
  readPlayerAdventure,
} from "../domain/economy/adventures/change-adventures.ts";
import { Definition } from "../domain/economy/definitions/definitions.ts";
import { draftStatusOf, patchDraft, publishDraft } from "../domain/economy/definitions/drafts.ts";
import type { Adventure } from "../domain/evaluation/adventures/adventure.ts";
import type { Track } from "../domain/evaluation/adventures/row.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import type { Work } from "../domain/kernel/work.ts";
import { getPlayer } from "../domain/progression/players/players.ts";
import { SEASON, seasonEnd } from "./demo-game.ts";
import type { DemoPlayer } from "./demo-history.ts";

/** So many of the most active players have claimed their free tiers, and bought premium. */
const CLAIMING = 12;
const PREMIUM = 5;
/** A season that ends sooner is put off by a start. */
const RENEW_BEFORE_MS = 14 * 86_400_000;

/** What a start tells about the season. */
export type DemoSeason = { name: string; endsAt: string; quests: number; tiers: number; players: number };

const isRefused = (error: unknown): error is DomainError => error instanceof DomainError;

/** Runs a change of a player unless it was made before, or the player cannot pay. */
const unlessRefused = async (app: App, change: (work: Work) => Promise<unknown>): Promise<void> => {
  try {
    await app.transact(change);
  } catch (error) {
    if (!isRefused(error) || error.code !== "CONFLICT") throw error;
  }
};

/** Lets the most active players claim tiers that they have reached, and the first of them buy premium. */
export const claimTiers = async (
  app: App,
  projectId: string,
  players: readonly DemoPlayer[],
): Promise<void> => {
  for (const [i, { externalUserId }] of players.slice(0, CLAIMING).entries()) {
    const { id, reached } = await app.transact(async (work) => {
      const player = await getPlayer(work, projectId, `ext:${externalUserId}`);
      const { tiers } = await readPlayerAdventure(work, player, SEASON);
      return { id: player.id, reached: tiers.filter((tier) => tier.reached) };
    });
    const ref = { projectId, id };
    const claim = async (track: Track): Promise<void> => {
      for (const { tier } of reached)
        await unlessRefused(app, (work) => claimPlayerTier(work, ref, { adventureRef: SEASON, tier, track }));
    };
    await claim("FREE");
    if (i >= PREMIUM) continue;
    const bought = { adventureRef: SEASON, isGranted: false };
    await unlessRefused(app, (work) => givePlayerPremium(work, ref, bought));
    await claim("PREMIUM");
  }
};

const findSeason = ({ em }: Work, projectId: string): Promise<Definition | null> =>
  em.findOne(Definition, { projectId, kind: adventureKind.kind, key: SEASON });

/**
 * Puts off the end of a season that is over or soon will be, so that every start finds it running. One that a
 * designer has edited, paused, ended or archived stays as it is.
 */
export const renewSeason = async (app: App, projectId: string): Promise<void> => {
  try {
    await app.transact(async (outer) => {
      const work = await inProjectTime(outer, projectId);
      const found = await findSeason(work, projectId);
      if (found?.status !== "ACTIVE" || found.phase !== "RUNNING" || found.draft !== null) return;
      const { endsAt } = found.definition as unknown as Adventure;
      if (Date.parse(endsAt) - work.now.getTime() > RENEW_BEFORE_MS) return;
      const changes = { endsAt: seasonEnd(work.now.getTime()), claimUntil: null };
      await patchDraft(work, adventureKind, { projectId, ref: SEASON, changes });
      await publishDraft(work, adventureKind, { projectId, ref: SEASON });
    });
  } catch (error) {
    if (!isRefused(error)) throw error;
    // Such as a quest of it that was archived after its end.
    app.log.warn({ err: error }, "the season of the demo was not renewed");
  }
};

/** Returns what there is to tell of the season; undefined where none runs. */
export const readSeason = (app: App, projectId: string): Promise<DemoSeason | undefined> =>
  app.transact(async (outer) => {
    const work = await inProjectTime(outer, projectId);
    const found = await findSeason(work, projectId);
    if (!found || draftStatusOf(found, work.now) !== "ACTIVE") return undefined;
    const { name, endsAt, items, tiers } = found.definition as unknown as Adventure;
    const { players } = await readAdventureStats(work, found);
    return { name, endsAt, quests: items.length, tiers: tiers.length, players };
  });
