import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

const TABLES = [
  "uncounted_events",
  "analytics_rollups",
  "analytics_players",
  "analytics_days",
  "analytics_firsts",
  "analytics_unknown",
];

/**
 * What players did, by day, in few bytes, so that analytics need not read every event: see
 * src/domain/analytics/rollups. A job makes them of the events that there are already.
 */
export class Migration20261126000050 extends Migration {
  override up(): void {
    for (const statement of [
      // Events that were rejected or reverted: whoever has counted them has to be told.
      `create table uncounted_events (
        project_id uuid not null,
        event_id uuid not null,
        primary key (project_id, event_id))`,
      `create table analytics_rollups (
        project_id uuid primary key,
        watermark uuid not null,
        players int not null,
        rolled_up_at timestamptz(3) not null,
        halted_at timestamptz(3))`,
      `create table analytics_players (
        project_id uuid not null,
        player_id uuid not null,
        no int not null,
        primary key (project_id, player_id))`,
      `create unique index analytics_players_no_idx on analytics_players (project_id, no)`,
      `create table analytics_days (
        project_id uuid not null,
        chunk int not null,
        day int not null,
        event_type text not null,
        document bytea not null,
        primary key (project_id, chunk, day, event_type))`,
      // Bytes that nothing makes smaller.
      `alter table analytics_days alter column document set storage external`,
      `create table analytics_firsts (
        project_id uuid not null,
        chunk int not null,
        firsts bytea not null,
        primary key (project_id, chunk))`,
      `alter table analytics_firsts alter column firsts set storage external`,
      `create table analytics_unknown (
        project_id uuid not null,
        event_id uuid not null,
        primary key (project_id, event_id))`,
      ...TABLES.flatMap(byProject),
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const table of TABLES) this.addSql(`drop table ${table}`);
  }
}
