import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/** What players submit for steps of quests, and the pools of codes of steps. */
export class Migration20261124000031 extends Migration {
  override up(): void {
    for (const statement of [
      `create table quest_submissions (
        project_id uuid not null,
        id uuid not null,
        player_id uuid not null,
        quest_key text not null check (length(quest_key) between 1 and 64),
        player_quest_id uuid not null,
        cycle_key text not null check (length(cycle_key) between 1 and 64),
        step_key text not null check (length(step_key) between 1 and 64),
        evidence_type text check (evidence_type in ('TEXT', 'URL')),
        evidence text check (length(evidence) <= 4096),
        status text not null check (status in ('PENDING', 'CONFIRMED', 'APPROVED', 'REJECTED', 'WITHDRAWN')),
        submitted_at timestamptz(3) not null,
        reviewed_by text,
        note text,
        closed_at timestamptz(3),
        check ((evidence is null) = (evidence_type is null)),
        check ((status = 'PENDING') = (closed_at is null)),
        primary key (project_id, id))`,
      `create index quest_submissions_player_idx on quest_submissions (project_id, player_id)`,
      `create index quest_submissions_queue_idx on quest_submissions (project_id, status, id)`,
      `create index quest_submissions_closed_idx on quest_submissions (closed_at)
        where closed_at is not null`,
      ...byProject("quest_submissions"),
      `create table quest_codes (
        project_id uuid not null,
        quest_key text not null check (length(quest_key) between 1 and 64),
        step_key text not null check (length(step_key) between 1 and 64),
        hash text not null check (length(hash) = 64),
        player_id uuid,
        used_at timestamptz(3),
        created_at timestamptz(3) not null,
        primary key (project_id, quest_key, step_key, hash))`,
      `create index quest_codes_free_idx on quest_codes (project_id, quest_key, step_key)
        where used_at is null`,
      `create index quest_codes_player_idx on quest_codes (project_id, player_id)
        where player_id is not null`,
      ...byProject("quest_codes"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table quest_codes`);
    this.addSql(`drop table quest_submissions`);
  }
}
