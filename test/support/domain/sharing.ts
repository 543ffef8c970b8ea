import { sql } from "kysely";
import { createSharedCommits } from "../../../src/domain/kernel/shared-commits.ts";
import { createTransact, NO_WAKE_UPS } from "../../../src/domain/kernel/transact.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";
import type { Database } from "../../../src/platform/database.ts";
import { randomBytes } from "node:crypto";
import { boostPlayer } from "../../../src/domain/economy/boosts/operations.ts";
import { awardByHand } from "../../../src/domain/economy/badges/player-badges.ts";
import {
  captureHold,
  changeBalance,
  holdCurrency,
  releaseHold,
} from "../../../src/domain/economy/currencies/holds.ts";
import { changeLives } from "../../../src/domain/economy/lives/operations.ts";
import { claimReward, grantByHand } from "../../../src/domain/economy/rewards/catalogue.ts";
import { giveFreezes } from "../../../src/domain/economy/streaks/player-streaks.ts";
import { claimKey, storeResponse } from "../../../src/domain/kernel/idempotency.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { createSecretBox } from "../../../src/domain/kernel/secret-box.ts";
import { submitPlayerScore } from "../../../src/domain/leaderboards/record-scores.ts";
import {
  grantPlayerXp,
  identifyPlayer,
  patchPlayer,
} from "../../../src/domain/progression/players/players.ts";
import { showChanged } from "../../../src/domain/progression/players/show.ts";
import type { Domain } from "./domain.ts";
import { define } from "./rule-projects.ts";

/** Runs a request of a project, which shares transactions with others. */
export type Share = <T>(player: string, run: (work: Work) => Promise<T>, isPlain?: boolean) => Promise<T>;

const onError = (error: unknown): void => {
  throw error;
};

/** A committer over a database, for one project. */
export const openSharing = async ({ em }: Database, domain: Domain, projectId: string) => {
  const { rows } = await domain.transact(({ db }) =>
    sql<{ tenant_id: string }>`select tenant_id from projects where id = ${projectId}`.execute(db),
  );
  const scope = { role: "web", tenantId: rows[0]!.tenant_id, projectIds: [projectId] } as const;
  const parts = { em, clock: () => new Date(), wakeUps: NO_WAKE_UPS, onError };
  const transactAs = (rowScope: Parameters<typeof createTransact>[1]) => createTransact(parts, rowScope);
  const shared = createSharedCommits({ waitMaxMs: 30_000, transactAs });
  const share: Share = (player, run, isPlain = true) => shared(scope, { player, isPlain })(run);
  return { share, tenantId: scope.tenantId, alone: transactAs(scope) };
};

const cause = { kind: "API" } as const;
const secretBox = createSecretBox([`1:${randomBytes(32).toString("base64")}`]);

/** Makes a project with what the changes below need. */
export const aProjectOfChanges = async (domain: Domain): Promise<string> => {
  const projectId = await domain.addProject();
  await define(domain, projectId, "currency", { key: "coins", name: "Coins", initialBalance: 100 });
  await define(domain, projectId, "badge", { key: "fan", name: "Fan", repeatable: true });
  await define(domain, projectId, "reward", {
    key: "chest",
    name: "Chest",
    kind: "BUNDLE",
    bundle: { xp: 3 },
  });
  await define(domain, projectId, "streak", {
    key: "daily",
    name: "Daily",
    qualify: {
      mode: "ALL",
      parts: [{ metric: { eventTypes: ["login"], aggregate: "count" }, threshold: 1 }],
    },
    freeze: { max: 3 },
  });
  await domain.addBoard(projectId, {
    key: "best",
    name: "Best",
    operator: "BEST",
    metric: { source: "CUSTOM" },
  });
  await domain.transact(({ db }) =>
    sql`update projects set settings = ${JSON.stringify({
      lives: { enabled: true, max: 100, start: 100, refillSeconds: 60 },
    })}::jsonb where id = ${projectId}`.execute(db),
  );
  return projectId;
};

type ChangeParts = { domain: Domain; tenantId: string; projectId: string; player: string; n: number };
/** A change of a player as a request makes it. `needs`: made before, by itself. */
export type ChangeOfOne = {
  isPlain: boolean;
  needs?: (work: Work, parts: ChangeParts) => Promise<{ id: string }>;
  run(work: Work, parts: ChangeParts & { id: string }): Promise<unknown>;
};

const keyOf = ({ projectId, player }: ChangeParts) => ({ projectId, id: player });
const hold = (work: Work, parts: ChangeParts) =>
  holdCurrency(work, keyOf(parts), { currencyKey: "coins", amount: 1, expiresInSeconds: 600 });

/** Every change that shares transactions. */
export const CHANGES: Readonly<Record<string, ChangeOfOne>> = {
  xp: {
    isPlain: true,
    run: async (work, parts) => {
      const grant = { amount: 5, reason: "test", cause, reference: `order-${parts.n}-${newId()}` };
      const { player } = await grantPlayerXp(work, keyOf(parts), grant);
      return showChanged(work, player);
    },
  },
  spend: {
    isPlain: true,
    run: (work, parts) =>
      changeBalance(work, keyOf(parts), { currencyKey: "coins", amount: -1, reason: "test", cause }),
  },
  keyed: {
    isPlain: true,
    run: async (work, parts) => {
      const { tenantId, projectId } = parts;
      const request = { scope: `project:${projectId}:test`, key: newId(), tenantId, fingerprint: "f" };
      await claimKey(work, { secretBox, request });
      const change = { currencyKey: "coins", amount: 1, reason: "test", cause };
      const body = await changeBalance(work, keyOf(parts), change);
      await storeResponse(work, { secretBox, request, response: { status: 201, body } });
    },
  },
  score: {
    isPlain: true,
    run: (work, { projectId, player, n }) =>
      submitPlayerScore((run) => run(work), projectId, "best", {
        playerId: player,
        score: n,
      }),
  },
  lives: {
    isPlain: true,
    run: (work, parts) => changeLives(work, keyOf(parts), { amount: -1, reason: "test", cause }),
  },
  badge: { isPlain: true, run: (work, parts) => awardByHand(work, keyOf(parts), { badge: "fan", cause }) },
  freezes: {
    isPlain: true,
    run: (work, parts) => giveFreezes(work, keyOf(parts), { streakKey: "daily", amount: 1 }),
  },
  boost: {
    isPlain: true,
    run: (work, parts) =>
      boostPlayer(work, keyOf(parts), {
        boostKey: newId(),
        applies: "xp",
        factor: 2,
        durationSeconds: 60,
        stacking: "REPLACE",
        cause,
      }),
  },
  reward: {
    isPlain: false,
    run: (work, parts) =>
      grantByHand(work, keyOf(parts), { reward: "chest", quantity: 1, delivery: "AUTO", cause }),
  },
  claim: {
    isPlain: false,
    needs: (work, parts) =>
      grantByHand(work, keyOf(parts), { reward: "chest", quantity: 1, delivery: "CLAIM", cause }),
    run: (work, parts) => claimReward(work, keyOf(parts), parts.id),
  },
  hold: { isPlain: false, run: hold },
  capture: {
    isPlain: false,
    needs: hold,
    run: (work, parts) => captureHold(work, keyOf(parts), { holdId: parts.id, cause }),
  },
  release: { isPlain: false, needs: hold, run: (work, parts) => releaseHold(work, keyOf(parts), parts.id) },
  profile: {
    isPlain: false,
    run: async (work, parts) =>
      showChanged(work, await patchPlayer(work, keyOf(parts), { displayName: newId() })),
  },
  identify: {
    isPlain: false,
    run: async (work, { projectId, player, n }) => {
      const given = { externalUserId: player.slice("ext:".length), attributes: { n } };
      return showChanged(work, (await identifyPlayer(work, projectId, given)).player);
    },
  },
};
