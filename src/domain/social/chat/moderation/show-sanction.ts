import { sql } from "kysely";
import type { PlayerRef } from "../../../kernel/events/events.ts";
import type { SanctionKind } from "../../../kernel/events/chat-views.ts";

export const APPEAL_STATUSES = ["OPEN", "ACCEPTED", "REJECTED"] as const;
export type AppealStatus = (typeof APPEAL_STATUSES)[number];

/** A sanction as moderators see it. Times are ISO 8601. */
export type Sanction = {
  id: string;
  player: PlayerRef & { displayName: string | null };
  kind: SanctionKind;
  channelId: string | null;
  reason: string;
  isAutomatic: boolean;
  /** Whether it is neither revoked nor expired. */
  isActive: boolean;
  expiresAt: string | null;
  createdBy: string;
  createdAt: string;
  revokedAt: string | null;
  revokedBy: string | null;
  appeal: { text: string; status: AppealStatus; at: string } | null;
};

export type SanctionRow = {
  id: string;
  player_id: string;
  external_user_id: string | null;
  display_name: string | null;
  channel_id: string | null;
  kind: SanctionKind;
  reason: string;
  is_automatic: boolean;
  expires_at: Date | string | null;
  created_by: string;
  created_at: Date | string;
  revoked_at: Date | string | null;
  revoked_by: string | null;
  appeal: string | null;
  appealed_at: Date | string | null;
  appeal_status: AppealStatus | null;
};

/** The rows that `showSanction` takes: sanctions `s` with their players. */
export const SANCTIONS = sql`
  select s.*, p.external_user_id, p.display_name from chat_sanctions s
  left join players p on p.project_id = s.project_id and p.id = s.player_id`;

export const timeOf = (value: Date | string): string => new Date(value).toISOString();
export const timeOrNull = (value: Date | string | null): string | null =>
  value === null ? null : timeOf(value);

const appealOf = ({ appeal, appeal_status: status, appealed_at: at }: SanctionRow): Sanction["appeal"] =>
  appeal === null || status === null || at === null ? null : { text: appeal, status, at: timeOf(at) };

export const isActiveAt = (row: Pick<SanctionRow, "revoked_at" | "expires_at">, now: Date): boolean =>
  row.revoked_at === null && (row.expires_at === null || new Date(row.expires_at) > now);

export const showSanction = (row: SanctionRow, now: Date): Sanction => ({
  id: row.id,
  player: {
    playerId: row.player_id,
    externalUserId: row.external_user_id ?? "",
    displayName: row.display_name,
  },
  kind: row.kind,
  channelId: row.channel_id,
  reason: row.reason,
  isAutomatic: row.is_automatic,
  isActive: isActiveAt(row, now),
  expiresAt: timeOrNull(row.expires_at),
  createdBy: row.created_by,
  createdAt: timeOf(row.created_at),
  revokedAt: timeOrNull(row.revoked_at),
  revokedBy: row.revoked_by,
  appeal: appealOf(row),
});
