import { Migration } from "@mikro-orm/migrations";

/** Badges and streaks that are edited: what players have reached by then is given by a worker. */
export class Migration20261129000103 extends Migration {
  override up(): void {
    for (const statement of [
      `create function note_edited_definition() returns trigger language plpgsql as $$
        begin
          new.ends_changed := true;
          return new;
        end $$`,
      `create trigger definitions_edited before update on definitions for each row
        when (new.kind in ('badge', 'streak') and new.status = 'ACTIVE' and new.version is distinct from old.version)
        execute function note_edited_definition()`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop trigger definitions_edited on definitions`);
    this.addSql(`drop function note_edited_definition()`);
    this.addSql(`update definitions set ends_changed = false, ends = null where kind in ('badge', 'streak')`);
  }
}
