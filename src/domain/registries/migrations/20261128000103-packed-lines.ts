import { Migration } from "@mikro-orm/migrations";

/**
 * Rows of the outbox that hold several lines of a player's stream: `lines` of them, of which the row has the
 * seq of the last; null: the row is one line, or none. See kernel/outbox-row.ts.
 */
export class Migration20261128000103 extends Migration {
  override up(): void {
    this.addSql(`alter table outbox add column lines smallint`);
  }

  override down(): void {
    this.addSql(`do $$ begin
      if exists (select from outbox where lines is not null) then
        raise exception 'rows of the outbox hold several lines: they cannot be divided again';
      end if;
    end $$`);
    this.addSql(`alter table outbox drop column lines`);
  }
}
