/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TOOLS_DOCTOR_H
#define VB_TOOLS_DOCTOR_H

/*
 * Theory of operation
 *
 * `verbena doctor` goes through a table of probes (doctor.c). A probe looks at one thing
 * and says what it found, in one or more lines of doctor_line(); the worst of them decides
 * the exit status. To add one, write a function here and give it a row there.
 */

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_WARN, /* the device works, with something missing or slower */
	DOCTOR_FAIL, /* the device does not work */
};

/** doctor_line() - Say what was found
 * @fmt:    One line: the fact, and where it is not as it should be, why and what to do
 */
void doctor_line(enum doctor_verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void doctor_device(void);
void doctor_settings(void);
void doctor_gids(void);
void doctor_libraries(void);
void doctor_sysfs(void);
void doctor_runtime(void);
void doctor_memfd(void);
void doctor_process_vm(void);
void doctor_yama(void);
void doctor_userfaultfd(void);
void doctor_limits(void);
void doctor_port(void);
void doctor_firewall(void);
void doctor_peer(void);

/** doctor_set_peer() - Have doctor_peer() look at a host
 * @name:   Address or name, kept by the caller
 */
void doctor_set_peer(const char *name);

#endif
