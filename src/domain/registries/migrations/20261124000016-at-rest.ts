import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/**
 * A row for each change of a project's segments, whichever statement makes it, so that nobody has to compare
 * the definitions of all projects. From this version on, projects without segments that depend on time are
 * swept never instead of every 15 minutes.
 */
export class Migration20261124000016 extends Migration {
  override up(): void {
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
  }
}
