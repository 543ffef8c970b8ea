import { sql } from "kysely";
import { APPROVAL_STATUSES, type ApprovalStatus, type Plan, PLANS } from "../../kernel/caller.ts";
import type { Work } from "../../kernel/work.ts";
import { audit } from "../audit/audit.ts";
import type { ListedRoom, RoomSession } from "../../kernel/live-rooms.ts";
import { Project } from "../projects/project.ts";

/** Maximum of each count: beyond it an exact number adds nothing. */
export const STATS_COUNT_MAX = 1_000_000;

type PlatformStats = {
  tenants: {
    total: number;
    byApprovalStatus: Record<ApprovalStatus, number>;
    byPlan: Record<Plan, number>;
  };
  users: number;
  projects: number;
  activeKeys: number;
  mail: { queued: number; failedLastDay: number };
  generatedAt: string;
};

type Group = { status: ApprovalStatus; plan: Plan; tenants: number };
type Counts = { users: number; projects: number; keys: number; queued: number; failed: number };

const sums = <K extends string>(
  names: readonly K[],
  groups: readonly Group[],
  nameOf: (group: Group) => K,
): Record<K, number> => {
  const found = Object.fromEntries(names.map((name) => [name, 0])) as Record<K, number>;
  for (const group of groups) found[nameOf(group)] += group.tenants;
  return found;
};

/** Returns usage statistics of the platform, without deleted items. Counts are capped at STATS_COUNT_MAX. */
export const platformStats = async ({ db, now }: Work): Promise<PlatformStats> => {
  const at = now.toISOString();
  const dayAgo = new Date(now.getTime() - 86_400_000).toISOString();
  const groups = await sql<Group>`
    select approval_status as status, plan, count(*) as tenants from (
      select approval_status, plan from tenants
      where deleted_at is null limit ${STATS_COUNT_MAX}) as counted
    group by approval_status, plan`.execute(db);
  const counts = await sql<Counts>`
    select
      (select count(*) from (select from users limit ${STATS_COUNT_MAX}) as counted) as users,
      (select count(*) from (select from projects
        where deleted_at is null and sandbox_of is null limit ${STATS_COUNT_MAX}) as counted) as projects,
      (select count(*) from (select from api_keys
        where status = 'ACTIVE' and (expires_at is null or expires_at > ${at}::timestamptz)
        limit ${STATS_COUNT_MAX}) as counted) as keys,
      (select count(*) from (select from email_outbox limit ${STATS_COUNT_MAX}) as counted) as queued,
      (select count(*) from (select from email_logs
        where status = 'FAILED' and created_at > ${dayAgo}::timestamptz
        limit ${STATS_COUNT_MAX}) as counted) as failed`.execute(db);
  const row = counts.rows[0]!;
  return {
    tenants: {
      total: groups.rows.reduce((total, { tenants }) => total + tenants, 0),
      byApprovalStatus: sums(APPROVAL_STATUSES, groups.rows, ({ status }) => status),
      byPlan: sums(PLANS, groups.rows, ({ plan }) => plan),
    },
    users: row.users,
    projects: row.projects,
    activeKeys: row.keys,
    mail: { queued: row.queued, failedLastDay: row.failed },
    generatedAt: at,
  };
};

/** Records who ends a session and why in the audit log of the room's tenant, before it is ended. */
export const auditDisconnect = async (
  work: Work,
  { room, session }: { room: ListedRoom; session: RoomSession },
  reason: string,
): Promise<void> => {
  const { roomId, kind, projectId } = room;
  const { sessionId, playerId, userId } = session;
  const project = await work.em.findOne(Project, { id: projectId }, { fields: ["tenantId"] });
  await audit(work, {
    action: "room.client_disconnected",
    target: { type: "room", id: roomId },
    tenantId: project?.tenantId ?? null,
    data: { kind, projectId, sessionId, playerId, userId, reason },
  });
};
