import { Migration } from "@mikro-orm/migrations";

/**
 * Drops an index of runs: those of a player are few enough to be found by the player alone. From this version
 * on, lines of the ledger also leave out what the rest of their row says (progression/ledger-line.ts). Taking
 * this back writes those lines whole again, since the previous version shows lines as they are stored.
 */
export class Migration20261123000005 extends Migration {
  override up(): void {
    this.addSql(`drop index streak_runs_streak_idx`);
  }

  override down(): void {
    this.addSql(`update ledger_entries set
        reason = case when reason = '' then 'rule:' || (cause->>'ruleKey') else reason end,
        cause = jsonb_build_object('eventId', event_id, 'rootEventId', event_id,
          'actionId', split_part(idempotency_key, ':', 4)) || cause
      where event_id is not null and cause->>'kind' = 'RULE'
        and (reason = '' or cause->>'eventId' is null or cause->>'rootEventId' is null
          or cause->>'actionId' is null)`);
    this.addSql(`create index streak_runs_streak_idx
      on streak_runs (project_id, player_id, streak_key, ended_on)`);
  }
}
