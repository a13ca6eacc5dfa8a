/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a fuzz target once over every file of the folders, or the files, it is given. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int files;

static int run_file(const char *path)
{
	FILE *file = fopen(path, "re");
	uint8_t buf[65536], *exact;
	size_t size;

	if (!file)
		return -1;
	size = fread(buf, 1, sizeof(buf), file);
	fclose(file);
	/* Of its own size, so that a sanitizer sees a read past the end. */
	exact = malloc(size ? size : 1);
	if (!exact)
		return -1;
	memcpy(exact, buf, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	files++;
	return 0;
}

static int run_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[4096];

	if (!dir)
		return run_file(path);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (run_file(name))
			break;
	}
	closedir(dir);
	return entry ? -1 : 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (run_folder(argv[i])) {
			fprintf(stderr, "cannot read %s\n", argv[i]);
			return 1;
		}
	}
	printf("%d inputs\n", files);
	return files ? 0 : 1;
}
