import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

const keptKinds = (kinds: string): string => `
  create or replace function keep_definition_version() returns trigger language plpgsql as $$
    begin
      if new.kind in (${kinds}) and new.status = 'ACTIVE' then
        new.phase := coalesce(new.phase, 'RUNNING');
        insert into definition_versions (project_id, definition_id, version, definition, published_at)
        values (new.project_id, new.id, new.version, new.definition, new.updated_at)
        on conflict do nothing;
      end if;
      return new;
    end $$`;

/** Versions of adventures, and players' adventures. */
export class Migration20261124000020 extends Migration {
  override up(): void {
    for (const statement of [
      keptKinds("'quest', 'adventure'"),
      `create table player_adventures (
        project_id uuid not null,
        player_id uuid not null,
        adventure_key text not null check (length(adventure_key) between 1 and 64),
        id uuid not null,
        adventure_version int not null,
        state text not null check (state in ('WAITING', 'IN_PROGRESS', 'COMPLETED', 'CLAIMED', 'EXPIRED')),
        points numeric(16, 6) not null,
        started_at timestamptz(3),
        completed_at timestamptz(3),
        claimed_at timestamptz(3),
        premium_at timestamptz(3),
        doc jsonb not null,
        due_at timestamptz(3),
        updated_at timestamptz(3) not null,
        primary key (project_id, player_id, adventure_key)) with (fillfactor = 80)`,
      `create index player_adventures_adventure_idx
        on player_adventures (project_id, adventure_key, updated_at, player_id)`,
      `create index player_adventures_due_idx on player_adventures (due_at, project_id, player_id)
        where due_at is not null`,
      ...byProject("player_adventures"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const statement of [
      `drop table player_adventures`,
      keptKinds("'quest'"),
      `delete from definition_versions v using definitions d
        where d.project_id = v.project_id and d.id = v.definition_id and d.kind = 'adventure'`,
      `delete from definitions where kind = 'adventure'`,
    ])
      this.addSql(statement);
  }
}
