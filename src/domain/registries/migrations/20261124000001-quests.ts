import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/**
 * Drafts, phases and versions of definitions whose kinds have them, and players' quests. A version is kept
 * whenever one is published, by whatever way.
 */
export class Migration20261124000001 extends Migration {
  override up(): void {
    for (const statement of [...this.definitions(), ...this.quests()]) this.addSql(statement);
  }

  private definitions(): string[] {
    return [
      `alter table definitions add column draft jsonb, add column draft_version int not null default 1,
        add column phase text check (phase in ('RUNNING', 'PAUSED', 'ENDED')),
        add column ended_at timestamptz(3),
        add column draft_bytes int generated always as (octet_length(draft::text)) stored`,
      `alter table definitions drop constraint definitions_status_check,
        add constraint definitions_status_check check (status in ('ACTIVE', 'ARCHIVED', 'DRAFT'))`,
      `create table definition_versions (
        project_id uuid not null,
        definition_id uuid not null,
        version int not null,
        definition jsonb not null,
        published_at timestamptz(3) not null,
        primary key (project_id, definition_id, version))`,
      ...byProject("definition_versions"),
      `create function keep_definition_version() returns trigger language plpgsql as $$
        begin
          if new.kind in ('quest') and new.status = 'ACTIVE' then
            new.phase := coalesce(new.phase, 'RUNNING');
            insert into definition_versions (project_id, definition_id, version, definition, published_at)
            values (new.project_id, new.id, new.version, new.definition, new.updated_at)
            on conflict do nothing;
          end if;
          return new;
        end $$`,
      `create trigger definitions_version before insert or update on definitions
        for each row execute function keep_definition_version()`,
    ];
  }

  private quests(): string[] {
    return [
      `create table player_quests (
        project_id uuid not null,
        player_id uuid not null,
        quest_key text not null check (length(quest_key) between 1 and 64),
        cycle_key text not null check (length(cycle_key) between 1 and 64),
        id uuid not null,
        quest_version int not null,
        state text not null check (state in ('IN_PROGRESS', 'COMPLETED', 'CLAIMED', 'EXPIRED', 'FAILED',
          'ABANDONED', 'RESET')),
        percent smallint not null check (percent between 0 and 100),
        started_at timestamptz(3) not null,
        started_by text not null check (started_by in ('AUTO', 'PLAYER', 'API', 'RULE')),
        expires_at timestamptz(3),
        completed_at timestamptz(3),
        claimed_at timestamptz(3),
        claim_until timestamptz(3),
        completions int not null,
        last_completed_at timestamptz(3),
        doc jsonb not null,
        due_at timestamptz(3),
        is_latest boolean not null,
        is_live boolean not null,
        updated_at timestamptz(3) not null,
        primary key (project_id, player_id, quest_key, cycle_key)) with (fillfactor = 80)`,
      `create index player_quests_live_idx on player_quests (project_id, player_id) where is_live`,
      `create index player_quests_quest_idx on player_quests (project_id, quest_key, updated_at, player_id)`,
      `create index player_quests_due_idx on player_quests (due_at, project_id, player_id)
        where due_at is not null`,
      ...byProject("player_quests"),
    ];
  }

  override down(): void {
    for (const statement of [
      `drop table player_quests`,
      `drop trigger definitions_version on definitions`,
      `drop function keep_definition_version()`,
      `drop table definition_versions`,
      `delete from definitions where kind = 'quest'`,
      `alter table definitions drop constraint definitions_status_check,
        add constraint definitions_status_check check (status in ('ACTIVE', 'ARCHIVED'))`,
      `alter table definitions drop column draft_bytes, drop column draft, drop column draft_version,
        drop column phase,
        drop column ended_at`,
    ])
      this.addSql(statement);
  }
}
