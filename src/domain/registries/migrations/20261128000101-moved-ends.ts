import { Migration } from "@mikro-orm/migrations";

const keptVersions = (more: string): string => `
  create or replace function keep_definition_version() returns trigger language plpgsql as $$
    begin
      if new.kind in ('quest', 'adventure') and new.status = 'ACTIVE' then
        new.phase := coalesce(new.phase, 'RUNNING');
        ${more}
        insert into definition_versions (project_id, definition_id, version, definition, published_at)
        values (new.project_id, new.id, new.version, new.definition, new.updated_at)
        on conflict do nothing;
      end if;
      return new;
    end $$`;

/**
 * Quests and adventures that may end at another time than before, by whatever way they were changed; `ends`:
 * the times by which rows of players are due, and the place of a worker that makes them so.
 */
export class Migration20261128000101 extends Migration {
  override up(): void {
    for (const statement of [
      `alter table definitions add column ends jsonb, add column ends_changed boolean not null default false`,
      `create index definitions_ends_idx on definitions (kind, project_id) where ends_changed`,
      keptVersions(`if tg_op = 'UPDATE' and old.status <> 'DRAFT'
          and (new.version, new.ended_at) is distinct from (old.version, old.ended_at) then
          new.ends_changed := true;
        end if;`),
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const statement of [
      keptVersions(""),
      `drop index definitions_ends_idx`,
      `alter table definitions drop column ends, drop column ends_changed`,
    ])
      this.addSql(statement);
  }
}
