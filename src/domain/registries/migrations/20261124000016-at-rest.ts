import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/**
 * What lets a server at rest do nothing. `is_awaited` says whether anybody waits for events of a type, for
 * transactions that may not see the tenant's webhooks. `segment_changes` has a row for each change of a
 * project's segments, whichever statement makes it, so that nobody has to compare the definitions of all
 * projects. Projects without segments that depend on time are swept never instead of every 15 minutes.
 */
export class Migration20261124000016 extends Migration {
  override up(): void {
    this.addSql(`create function is_awaited(project uuid, patterns text[], read_since timestamptz)
      returns boolean language sql stable security definer set search_path from current as $$
        select exists (
          select from webhook_feeds f where f.project_id = project and f.read_at > read_since)
        or exists (
          select from projects p join webhooks w on w.tenant_id = p.tenant_id
          where p.id = project and w.deleted_at is null and w.status <> 'DISABLED'
            and (w.project_id = p.id or (w.project_id is null and p.sandbox_of is null))
            and w.events && patterns)
      $$`);
    this.addSql(`create table segment_changes (
      project_id uuid not null,
      seq bigint generated always as identity,
      primary key (project_id, seq))`);
    for (const statement of byProject("segment_changes")) this.addSql(statement);
    this.addSql(`create function note_segment_change() returns trigger
      language plpgsql as $$
        begin
          insert into segment_changes (project_id) values (coalesce(new.project_id, old.project_id));
          return null;
        end $$`);
    this.addSql(`create trigger definitions_segment_inserted after insert on definitions
      for each row when (new.kind = 'segment') execute function note_segment_change()`);
    this.addSql(`create trigger definitions_segment_updated after update on definitions
      for each row when (new.kind = 'segment') execute function note_segment_change()`);
    this.addSql(`create trigger definitions_segment_deleted after delete on definitions
      for each row when (old.kind = 'segment') execute function note_segment_change()`);
    this.addSql(`insert into segment_changes (project_id)
      select distinct project_id from definitions where kind = 'segment'`);
  }

  override down(): void {
    this.addSql(`update segment_sweeps set due_at = now() where due_at = 'infinity'`);
    for (const event of ["inserted", "updated", "deleted"])
      this.addSql(`drop trigger definitions_segment_${event} on definitions`);
    this.addSql(`drop function note_segment_change`);
    this.addSql(`drop table segment_changes`);
    this.addSql(`drop function is_awaited`);
  }
}
