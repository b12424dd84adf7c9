# The conductor and the small roles beside it. See CMakeLists.txt.
list(APPEND P2PSAFE_HELPER_SOURCES
  aer_counters.c main.c drop.c conductor.c conductor_chan.c conductor_link.c conductor_risk.c conductor_setup.c conductor_soak.c conductor_workers.c
  cpus.c
  host_config.c host_path.c host_pci.c host_tree.c host_worker.c
  judge.c judge_say.c klog.c klog_source.c legs.c
  legs_again.c legs_both.c legs_canary.c legs_dead.c legs_first.c legs_flag.c legs_load.c legs_look.c legs_message.c legs_move.c legs_order.c legs_staged.c legs_stream.c legs_sweep.c
  legs_word.c measure.c measure_crowd.c measure_host.c measure_way.c
  nvml_counters.c nvml_facts.c nvml_worker.c schedule.c spawn.c tally.c)
