import { Migration } from "@mikro-orm/migrations";

/**
 * When quests and adventures were paused. Of earlier pauses only those that last are known, from the last
 * change of the definition on.
 */
export class Migration20261126000080 extends Migration {
  override up(): void {
    this.addSql(`alter table definitions add column pauses jsonb`);
    this.addSql(`
      update definitions d set pauses = jsonb_build_array(
        jsonb_build_object('until', null,
          'from', left(h, 8) || '-' || right(h, 4) || '-0000-0000-000000000000'))
      from (
        select id, project_id,
          lpad(to_hex(floor(extract(epoch from updated_at) * 1000)::bigint), 12, '0') as h
        from definitions where phase = 'PAUSED') x
      where d.project_id = x.project_id and d.id = x.id`);
  }

  override down(): void {
    this.addSql(`alter table definitions drop column pauses`);
  }
}
