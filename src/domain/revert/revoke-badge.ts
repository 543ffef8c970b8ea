import { sql } from "kysely";
import { changeBadge, type PlayerBadge } from "../economy/badges/player-badges.ts";
import { revokeBadge } from "../evaluation/badges/award.ts";
import type { PlanTurn } from "../evaluation/project-plan.ts";
import { levelOf } from "../evaluation/xp/levels.ts";
import type { Cause } from "../kernel/events/events.ts";
import { newId } from "../kernel/ids.ts";
import { atOnce } from "../kernel/slices.ts";
import { eachInTurn, together } from "../kernel/together.ts";
import type { Work } from "../kernel/work.ts";
import { lockPlayerRow, type PlayerKey } from "../progression/change.ts";
import { AWARD_NUMBER, readRewards, type Rewards } from "./read-record.ts";
import { newReversal, type Reversal } from "./record.ts";
import { noteOthers, reverseLost } from "./reverse.ts";
import { leaveEmptied, reverseGrants } from "./reverse-scores.ts";
import { type RevertResult, revokeGrants } from "./revert-events.ts";

type RevokedBadge = PlayerBadge &
  Pick<RevertResult, "lives" | "shortfall" | "left"> & {
    reversed: Pick<RevertResult["reversed"], "xp" | "currencies">;
  };

type Revocation = { badge: string; cause: Cause; reason: string; actor: string };

/**
 * Revokes a badge by REST and takes back what its awards have given since it was last revoked, as far as it
 * is there: operators who find a badge to be won by cheating would otherwise have to find all its events.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE, EVENT_TOO_LARGE
 */
export const revokeWithRewards = async (
  work: Work,
  asked: PlayerKey,
  { badge, cause, reason, actor }: Revocation,
): Promise<RevokedBadge> => {
  const player = await lockPlayerRow(work, asked);
  const given = await readGiven(work, { player, badge });
  const begin = () => ({ ...newReversal({ id: newId() }, { reason, actor }), cause });
  let reversal = begin();
  const shown = await changeBadge(work, player, {
    ref: badge,
    change: (turn, badgeKey) => {
      reversal = begin();
      noteOthers(turn, { badgeKey, tier: 0, together: { awards: [] }, reversal });
      takeBack(turn, given, reversal);
      return revokeBadge(turn, { badgeKey, cause });
    },
    moments: [{ at: work.now.getTime() }, ...given.lost.map(({ atMs }) => ({ at: atMs }))],
  });
  await writeRevoked(work, { projectId: player.projectId, reversal });
  const { xp, currencies, lives, shortfall, left } = reversal;
  return { ...shown, reversed: { xp, currencies }, lives, shortfall, left: [...left].toSorted() };
};

const takeBack = (turn: PlanTurn, { lost, grants }: Rewards, reversal: Reversal): void => {
  const { player, root, project } = turn;
  const before = new Map(player.entries);
  const reached = levelOf(project.curve, player.xp);
  atOnce(reverseLost(turn, lost, reversal));
  atOnce(reverseGrants(turn, grants, reversal));
  leaveEmptied(turn, before, { hasOtherXp: true, lost });
  if (levelOf(project.curve, player.xp) < reached) reversal.left.add(`level ${reached}, with what it gave`);
  // A reversal triggers nothing.
  root.derived.length = 0;
};

type OfPlayer = { player: PlayerKey; badge: string };

/** Reads what the awards of a badge have given since it was last revoked by hand or by a rule. */
const readGiven = together({
  phase: "READS",
  isWrite: false,
  run: (work, items: readonly OfPlayer[]) => eachInTurn(items, (item) => readGivenTo(work, item)),
});

const readGivenTo = async (work: Work, { player: { projectId, id }, badge }: OfPlayer): Promise<Rewards> => {
  const rewards = await readRewards(work, projectId, {
    those: sql`(select ${id}::uuid as i, 'bdg:' || d.key || ':' as x, coalesce((
        select max(substring(a.idempotency_key from ${AWARD_NUMBER})::int) from badge_awards a
        where a.project_id = d.project_id and a.player_id = ${id}::uuid and a.badge_key = d.key
          and a.action = 'REVOKED' and a.cause->>'kind' <> 'REVERSAL'), 0) as n
      from definitions d where d.project_id = ${projectId} and d.kind = 'badge'
        and (d.id::text = lower(${badge}::text) or d.key = ${badge}::text)) w`,
    isLost: (key) => sql`starts_with(${key}, w.x) and substring(${key} from ${AWARD_NUMBER})::int > w.n`,
    playerIds: [id],
    eventIds: [],
    what: "the badge",
  });
  return rewards.get(id)!;
};

const writeRevoked = together({
  phase: "WRITES",
  isWrite: true,
  run: (work, items: readonly { projectId: string; reversal: Reversal }[]) =>
    eachInTurn(items, ({ projectId, reversal }) => revokeGrants(work, projectId, reversal.grants)),
});
